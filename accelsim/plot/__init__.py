"""Pictures and pages. The only place that imports matplotlib, and only when something is drawn."""
