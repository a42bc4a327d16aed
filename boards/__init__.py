"""The dev boards that hwflow knows: one YAML file each.  See `hwflow.synth.boards`."""
