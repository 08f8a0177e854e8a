; What C++ adds to C.
(class_specifier name: (_) @name body: (_)) @class
(namespace_definition name: (_) @name) @namespace
(function_definition declarator: (reference_declarator (function_declarator declarator: (_) @name))) @function
(field_declaration declarator: [
  (function_declarator declarator: (_) @name)
  (pointer_declarator declarator: (function_declarator declarator: (_) @name))
  (reference_declarator (function_declarator declarator: (_) @name))
]) @function
(alias_declaration name: (_) @name) @type
(concept_definition name: (_) @name) @type
