"""What leaves the view: the triggers, the strategies and the order in which they are tried."""
