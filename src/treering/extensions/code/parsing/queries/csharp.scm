(class_declaration name: (_) @name) @class
(record_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(struct_declaration name: (_) @name) @struct
(enum_declaration name: (_) @name) @enum
(namespace_declaration name: (_) @name) @namespace
(delegate_declaration name: (_) @name) @type
(method_declaration name: (_) @name) @function
(constructor_declaration name: (_) @name) @function
((field_declaration
    (modifier) @modifier
    (variable_declaration (variable_declarator name: (_) @name))) @constant
  (#eq? @modifier "const"))

(using_directive [(identifier) (qualified_name)] @import .) @statement
