"""Reading the files that users name, creating the folders for results, and the cache of steps."""
