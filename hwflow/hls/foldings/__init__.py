"""The search for the foldings of the stages of a design, and the resources that bound it."""
