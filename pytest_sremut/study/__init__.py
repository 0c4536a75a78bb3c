"""Pure: the model of a study, its YAML, schemas, cells and predictions."""
