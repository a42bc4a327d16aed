"""The design space of a model: boards, widths, intervals, and what each point takes and gives."""
