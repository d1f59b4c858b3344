"""Settings: their values and defaults, the presets, the triggers as values, the prompts, and loading from YAML."""
