"""Commands whose help lists the options in groups."""

from typer.core import TyperCommand

OTHERS = "Options"


class GroupedCommand(TyperCommand):
    """A command whose options stand in the help under their ``rich_help_panel``, in the order of the first of each."""

    def format_options(self, ctx, formatter) -> None:
        """Write the options, and the arguments above them."""
        groups: dict[str, list] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(parameter, "rich_help_panel", None) or OTHERS, []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)
