"""The generator of whole houses: plans, furniture, views, routes and what people say about them.

Entry: `fedsuite.vln.generator.houses`.
"""
