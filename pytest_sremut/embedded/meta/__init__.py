"""Objects as data: types, names, selectors, patches, ownership of fields, errors. Pure."""
