(class name: (_) @name) @class
(module name: (_) @name) @module
(method name: (_) @name) @function
(singleton_method name: (_) @name) @function
(assignment left: (constant) @name) @constant

((call method: (identifier) @call arguments: (argument_list . (string (string_content) @import) .)) @statement
  (#any-of? @call "require" "require_relative" "load"))
