"""The kernel of this machine: namespaces, netlink, socket tables, processes."""
