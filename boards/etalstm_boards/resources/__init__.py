"""What a configuration takes of a part, by Yosys' count."""
