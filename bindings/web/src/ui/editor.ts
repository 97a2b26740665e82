// The editor: CodeMirror in a shadow root, in which it uses constructed style sheets. The page's
// Content-Security-Policy thus need not allow inline styles.
import type { Language } from '../backend/backend.ts';
import {
  Compartment,
  EditorState,
  EditorView,
  type Extension,
  HighlightStyle,
  bracketMatching,
  defaultKeymap,
  drawSelection,
  highlightActiveLine,
  highlightActiveLineGutter,
  history,
  historyKeymap,
  indentOnInput,
  indentUnit,
  indentWithTab,
  javascriptLanguage,
  keymap,
  lineNumbers,
  pythonLanguage,
  syntaxHighlighting,
  tags,
  typescriptLanguage,
} from '../codemirror.ts';

// The colours are CSS variables of the page. The shadow root inherits them, so the editor follows the page's theme.
const theme = EditorView.theme({
  '&': { height: '100%', color: 'var(--ink)', backgroundColor: 'transparent', fontSize: 'var(--code-size)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.6', overflow: 'auto' },
  '.cm-content': { padding: '14px 0', caretColor: 'var(--accent)' },
  '.cm-line': { padding: '0 16px 0 10px' },
  '.cm-gutters': { color: 'var(--faint)', backgroundColor: 'transparent', border: 'none' },
  '.cm-lineNumbers .cm-gutterElement': { padding: '0 6px 0 16px', minWidth: '26px' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--line-tint)' },
  '.cm-cursor': { borderLeftColor: 'var(--accent)', borderLeftWidth: '2px' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'var(--selection)' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--selection)', outline: '1px solid var(--rule-strong)' },
});

const highlighting = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: 'var(--syn-keyword)' },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: 'var(--syn-string)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'var(--syn-number)' },
  { tag: [tags.comment, tags.meta], color: 'var(--syn-comment)', fontStyle: 'italic' },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.definition(tags.function(tags.variableName))], color: 'var(--syn-function)' },
  { tag: [tags.className, tags.typeName, tags.namespace], color: 'var(--syn-type)' },
]);

const LANGUAGES = { python: pythonLanguage, javascript: javascriptLanguage, typescript: typescriptLanguage };

function languageOf(language: Language): Extension {
  return [LANGUAGES[language], indentUnit.of(language === 'python' ? '    ' : '  ')];
}

/**
 * Replaces a selection with typed text. Browsers would insert the text with inline styles, which CodeMirror would
 * remove. The page's policy blocks these styles, so each insertion would log a violation.
 */
function typeOver(event: InputEvent, view: EditorView): boolean {
  if (event.inputType !== 'insertText' || event.data === null || view.composing || view.state.selection.main.empty) return false;
  view.dispatch(view.state.replaceSelection(event.data), { userEvent: 'input.type', scrollIntoView: true });
  event.preventDefault();
  return true;
}

export class Editor {
  readonly #view: EditorView;
  readonly #language = new Compartment();

  constructor(parent: HTMLElement, onRun: () => void, onChange: () => void) {
    const root = parent.attachShadow({ mode: 'open', delegatesFocus: true });
    const host = document.createElement('div');
    root.append(host);
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(':host { display: block; } div:first-of-type { height: 100%; }');
    root.adoptedStyleSheets = [sheet];
    const run = { key: 'Mod-Enter', preventDefault: true, run: () => (onRun(), true) };
    this.#view = new EditorView({
      root,
      parent: host,
      state: EditorState.create({
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          highlightActiveLine(),
          highlightActiveLineGutter(),
          syntaxHighlighting(highlighting),
          theme,
          // These bindings precede the defaults, which use the same keys to insert a line. Escape and then Tab leaves
          // the editor.
          keymap.of([run, indentWithTab, ...defaultKeymap, ...historyKeymap]),
          this.#language.of(languageOf('python')),
          EditorView.contentAttributes.of({ 'aria-label': 'Script', 'aria-describedby': 'hint', spellcheck: 'false', tabindex: '0' }),
          EditorView.domEventHandlers({ beforeinput: typeOver }),
          EditorView.updateListener.of(({ docChanged }) => docChanged && onChange()),
        ],
      }),
    });
  }

  get text(): string {
    return this.#view.state.doc.toString();
  }

  set text(text: string) {
    this.#view.dispatch({ changes: { from: 0, to: this.#view.state.doc.length, insert: text }, selection: { anchor: 0 }, scrollIntoView: true });
  }

  set language(language: Language) {
    this.#view.dispatch({ effects: this.#language.reconfigure(languageOf(language)) });
  }

  focus(): void {
    this.#view.focus();
  }
}
