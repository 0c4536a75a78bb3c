"""Names that nobody in the package uses and that may stay all the same.

`vulture` reads this file together with the package: a name that stands here counts as used. Each
group says why its names are needed. A name that is in no group has to be removed from the package.
"""

# pytest calls hooks and methods of items by name.
_.pytest_addhooks
_.pytest_addoption
_.pytest_collect_file
_.pytest_collection_modifyitems
_.pytest_configure
_.pytest_report_header
_.pytest_report_teststatus
_.pytest_runtest_logfinish
_.pytest_runtest_logreport
_.pytest_runtest_logstart
_.pytest_runtest_teardown
_.pytest_sessionfinish
_.pytest_sessionstart
_.pytest_terminal_summary
_.pytest_unconfigure
_._getobj
_.reportinfo
_.runtest

# pytest-xdist does the same.
_._split_scope
_.pytest_configure_node
_.pytest_keyboard_interrupt
_.pytest_testnodedown
_.pytest_xdist_make_scheduler

# asyncio calls the methods of a protocol.
_.connection_made
_.data_received
_.datagram_received
_.eof_received
_.pause_writing
_.resume_writing

# http.server and urllib call methods of a handler, and read its attributes.
_.close_connection
_.daemon_threads
_.do_GET
_.do_POST
_.log_message
_.protocol_version
_.redirect_request
_.sys_version

# The import system calls a finder's methods and reads a spec's attributes; Python calls a module's
# __getattr__; a context manager's __exit__ is given what was raised.
_.__getattr__
_.exc_type
_.get_code
_.submodule_search_locations

# shlex reads these attributes of a lexer.
_.commenters
_.whitespace_split

# rfc3161-client reads the response that it verifies: its abstract classes name these.
_.as_bytes
_.digest_algorithms
_.message_imprint
_.signer_infos
_.status_string
_.time_stamp_token
_.tst_info

# The kernel's structure has this field.
_.attr_clr

# Values of a file format: files name them, code asks for the others of their enumeration.
_.DELETE_SERVICE_AND_RECYCLE_PODS
_.ERROR_RATE_PERCENT
_.IN_PROCESS
_.ISOLATED
_.REPORT_INSTABILITY

# Tests measure the load generator by it: what was sent is counted where it is sent.
_.sent

# jsonpointer and jsonpatch call the methods of a pointer.
_.to_last

# Read by tests alone: what a rule that fired demands, and which intents of the guard are open.
_.consequence
_.unsettled
