"""Time-stamp tokens: requesting, issuing, taking apart, verifying."""
