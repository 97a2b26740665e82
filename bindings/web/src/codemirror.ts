// The parts of CodeMirror that the page uses. The build puts them into a separate file, so that the page's own code
// stays short.
export { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
// Exports only the languages, because the completion of names would make up a large part of the file.
export { javascriptLanguage, typescriptLanguage } from '@codemirror/lang-javascript';
export { pythonLanguage } from '@codemirror/lang-python';
export { HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language';
export { Compartment, EditorState, type Extension } from '@codemirror/state';
export { EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from '@codemirror/view';
export { tags } from '@lezer/highlight';
