"""The steps of `hwflow.flow` that need several parts of hwflow: files of the hardware, its simulation, the proof of a
netlist, measurements on data, and the folders that results go to."""
