"""Facts for people: on the console, as pages and as pictures."""
