"""Starting, finding and stopping a cluster; the daemon and what it is assembled from."""
