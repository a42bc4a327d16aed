"""How layers become hardware: one file for each kind of layer, and what the stages of a graph have in common.

`kinds.STAGES` has the class of each kind; `stage_of` gives the stage of a layer.
"""
