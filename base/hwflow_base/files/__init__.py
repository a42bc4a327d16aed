"""Files that users name, folders that results go to, and the cache of steps."""
