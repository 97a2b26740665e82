// What the page has of CodeMirror. The build makes a file of it of its own, so that what is ours stays short to read.
export { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
// The languages alone: what completes their names would be much of the file.
export { javascriptLanguage, typescriptLanguage } from '@codemirror/lang-javascript';
export { pythonLanguage } from '@codemirror/lang-python';
export { HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language';
export { Compartment, EditorState, type Extension } from '@codemirror/state';
export { EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from '@codemirror/view';
export { tags } from '@lezer/highlight';
