/**
 * Text for people. Text from a policy, an environment, an engine, a sample or a client may hold characters that act
 * instead of being shown: they move a cursor, set a clipboard, reverse letters, or are invisible. All text for
 * operators passes through here. Pure and without imports, because workflows use it, too.
 */

/** Terminal commands, with their parameter text, which is not meant to be shown. */
const SEQUENCES =
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u0090\u0098\u009c-\u009f\n]*(?:\u0007|\u001b\\|\u009c)/g;
/** C0 except tab and newline, DEL, C1, and the separators that some programs take for newlines. */
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]+/g;
/** They join letters of many scripts, and emoji. */
const JOINERS = /[\u200c\u200d]/g;
/**
 * Invisible characters: direction marks, zero-width blanks, letters without a shape, tags, lone surrogates. Selectors
 * of an emoji's form are kept, since they only change the character before them.
 */
const UNSEEN = /(?![\ufe00-\ufe0f])[\p{Default_Ignorable_Code_Point}\p{Cs}\ufff9-\ufffb]/gu;
const REPLACEMENT = '\ufffd';

/** Keeps lines and tabs. The result is never longer than the text. */
export function plain(text: string): string {
  return text
    .replace(SEQUENCES, '')
    .replaceAll('\r\n', '\n')
    .replace(CONTROLS, ' ')
    .replace(JOINERS, '')
    .replace(UNSEEN, REPLACEMENT);
}

/** On one line. */
export const plainLine = (text: string): string => plain(text).replace(/[\t\n]+/g, ' ');

/** For Markdown: one line without links, images and HTML. Not for table cells, which end at `|` even so. */
export function quoted(text: string): string {
  const line = plainLine(text);
  const runs = line.match(/`+/g) ?? [];
  const longest = runs.reduce((most, run) => Math.max(most, run.length), 0);
  const fence = '`'.repeat(longest + 1);
  // The fence needs a blank on either side if the text has a backtick at its edge.
  return `${fence} ${line} ${fence}`;
}

/** The same for a name: without a fence if it has no meaning in Markdown. */
export const named = (name: string): string =>
  /^[A-Za-z0-9](?:[\w-]*[A-Za-z0-9])?$/.test(name) ? name : quoted(name);

/** Escapes the characters that are not shown as themselves in JSON text. The value stays the same. */
export function plainJson(json: string): string {
  return json.replace(
    /[\u007f-\u009f\u2028\u2029\ufff9-\ufffb]|(?![\ufe00-\ufe0f])[\p{Default_Ignorable_Code_Point}\p{Cs}]/gu,
    (character) =>
      Array.from(
        { length: character.length },
        (_, at) => String.raw`\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`,
      ).join(''),
  );
}
