"""Formats of a report, each a value in the table of `fedsuite.reports.page.formats.table`."""
