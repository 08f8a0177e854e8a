(field_definition property: (_) @name value: (arrow_function) @holder) @function
