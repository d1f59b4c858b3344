"""Extract a summary from a conversation without a model: goal, rules, facts, steps, open requests and errors."""
