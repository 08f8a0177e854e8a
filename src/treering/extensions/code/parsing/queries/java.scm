(class_declaration name: (_) @name) @class
(record_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(annotation_type_declaration name: (_) @name) @interface
(enum_declaration name: (_) @name) @enum
(method_declaration name: (_) @name) @function
(constructor_declaration name: (_) @name) @function
(field_declaration declarator: (variable_declarator name: (_) @name)) @constant

(import_declaration [(scoped_identifier) (identifier)] @import) @statement
