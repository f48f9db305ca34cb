"""The cycle model: the plan's own programs through a timing model of the machine, without computing a value."""
