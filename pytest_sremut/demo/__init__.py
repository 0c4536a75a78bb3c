"""The demo application: its services and manifests; stands alone, standard library only."""
