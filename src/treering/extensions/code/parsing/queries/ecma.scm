; What JavaScript and TypeScript share. @holder is the node whose body ends the signature.
(function_declaration name: (identifier) @name) @function
(generator_function_declaration name: (identifier) @name) @function
(class_declaration name: (_) @name) @class
(method_definition name: (_) @name) @function
(lexical_declaration (variable_declarator
    name: (identifier) @name
    value: [(arrow_function) (function_expression)] @holder)) @function
(variable_declaration (variable_declarator
    name: (identifier) @name
    value: [(arrow_function) (function_expression)] @holder)) @function
(expression_statement (assignment_expression
    left: (member_expression) @name
    right: [(arrow_function) (function_expression)] @holder)) @function
(program (lexical_declaration "const" (variable_declarator name: (identifier) @name)) @constant)
(program (export_statement
    (lexical_declaration "const" (variable_declarator name: (identifier) @name)) @constant))

(import_statement source: (string (string_fragment) @import)) @statement
(export_statement source: (string (string_fragment) @import)) @statement
((call_expression
    function: (identifier) @call
    arguments: (arguments . (string (string_fragment) @import) .)) @statement
  (#eq? @call "require"))
(call_expression function: (import) arguments: (arguments . (string (string_fragment)) .)) @statement

(export_specifier name: (identifier) @export)
(export_statement "default" value: (identifier) @export)
((assignment_expression left: (member_expression) @left right: (identifier) @export)
  (#eq? @left "module.exports"))
((assignment_expression
    left: (member_expression) @left
    right: (object (shorthand_property_identifier) @export))
  (#eq? @left "module.exports"))
