"""Running the pods of a node: images, containers, probes, volumes, logs, processes."""
