"""Formats of a report, each a value in the table of `fedsuite.report.page.formats.table`."""
