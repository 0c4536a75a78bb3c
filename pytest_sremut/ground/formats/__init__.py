"""Reading and writing data: YAML with places, JSON Schemas, canonical JSON."""
