"""Settings: values and defaults, presets, triggers, prompts, and loading from YAML and environment variables."""
