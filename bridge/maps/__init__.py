"""Importers: layout files of other tools to layouts of ours."""
