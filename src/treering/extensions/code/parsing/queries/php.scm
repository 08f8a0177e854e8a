(class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(trait_declaration name: (_) @name) @trait
(enum_declaration name: (_) @name) @enum
(namespace_definition name: (_) @name body: (_)) @namespace
(function_definition name: (_) @name) @function
(method_declaration name: (_) @name) @function
(const_declaration (const_element (name) @name)) @constant

(namespace_use_clause [(qualified_name) (name)] @import)
(namespace_use_declaration) @statement
(require_expression (string (string_content) @import)) @statement
(require_once_expression (string (string_content) @import)) @statement
(include_expression (string (string_content) @import)) @statement
(include_once_expression (string (string_content) @import)) @statement
