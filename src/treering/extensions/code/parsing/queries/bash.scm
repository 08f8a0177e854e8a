(function_definition name: (word) @name) @function
(program (variable_assignment name: (variable_name) @name) @constant)
(program (declaration_command (variable_assignment name: (variable_name) @name)) @constant)

((command name: (command_name (word) @call) . argument: (_) @import) @statement
  (#any-of? @call "source" "."))
