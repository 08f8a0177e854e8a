; Definitions and prototypes, with up to two levels of pointer around the declarator.
(function_definition declarator: [
  (function_declarator declarator: (_) @name)
  (pointer_declarator declarator: (function_declarator declarator: (_) @name))
  (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name)))
]) @function
(declaration declarator: [
  (function_declarator declarator: (identifier) @name)
  (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))
  (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name)))
]) @function
(type_definition type: (struct_specifier body: (_)) declarator: (type_identifier) @name) @struct
(type_definition type: (union_specifier body: (_)) declarator: (type_identifier) @name) @struct
(type_definition type: (enum_specifier body: (_)) declarator: (type_identifier) @name) @enum
(type_definition declarator: (type_identifier) @name) @type
(struct_specifier name: (_) @name body: (_)) @struct
(union_specifier name: (_) @name body: (_)) @struct
(enum_specifier name: (_) @name body: (_)) @enum
(preproc_function_def name: (identifier) @name) @macro
(preproc_def name: (identifier) @name value: (_)) @constant

(preproc_include path: (_) @import) @statement
