; Definitions: the captured node spans the definition, @name names it.
(function_definition name: (identifier) @name) @function
(class_definition name: (identifier) @name) @class
(type_alias_statement left: (type (identifier) @name)) @type
(module (expression_statement (assignment left: (identifier) @name)) @constant)

; @statement: a whole import, read by `imports`.
(import_statement name: (dotted_name) @import) @statement
(import_statement name: (aliased_import name: (dotted_name) @import)) @statement
(import_from_statement module_name: (_) @import) @statement

; __all__ = ["a", "b"]; the name is compared outside, where it costs one comparison per list.
(module (expression_statement (assignment left: (identifier) @list right: [(list) (tuple)] @export)))
