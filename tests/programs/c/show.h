// Prints the sandbox's results, and creates strings for its calls.
#pragma once

#include "client.h"

// Creates a string for the bindings that points into a C string. `client_string_dup` would copy it instead.
client_string_t string(const char *text);
client_list_u8_t bytes(const char *text);

// Copies a string from the bindings into a C string, truncated to `size` bytes.
void copy_text(char *to, size_t size, client_string_t text);

void show_runtimes(void);
void show_diagnostic(const char *label, const sandbox_diagnostic_t *diagnostic);
void show_execution(const char *label, const sandbox_execution_t *execution);
void show_tool_request(const sandbox_tool_request_t *call);
void show_error(const sandbox_sandbox_error_t *error);

// Prints a file, or the reason why it cannot be read.
bool show_file(sandbox_borrow_files_t files, const char *path, sandbox_sandbox_error_t *error);
