"""Compare, convert and cut ONNX files, without hardware."""

#: One module each.
COMMANDS = ("convert", "diff", "extract", "rules")
