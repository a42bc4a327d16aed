"""When beats move between the stages of a plan: the streams between them, and the cycles of every beat."""
