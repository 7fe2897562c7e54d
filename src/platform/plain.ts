/**
 * Text for people. What a policy, an environment, an engine, a sample or whoever reaches the server has said may hold
 * characters that act instead of being shown: they move a cursor, set a clipboard, turn the order of the letters
 * round, or are not seen at all. All text that leaves the process towards an operator goes through here. Pure, and
 * without imports: workflows use it, too.
 */

/** What a terminal takes for commands: with their text, for which nothing was meant to be shown. */
const SEQUENCES =
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u0090\u0098\u009c-\u009f\n]*(?:\u0007|\u001b\\|\u009c)/g;
/** C0 but for tab and newline, DEL, C1, and the separators that some programs take for newlines. */
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]+/g;
/** They join letters of many scripts, and emoji. */
const JOINERS = /[\u200c\u200d]/g;
/**
 * What is not seen: marks of direction, blanks without width, letters without a shape, tags, halves of a character. Not
 * the selectors of an emoji's form, which change only what stands before them.
 */
const UNSEEN = /(?![\ufe00-\ufe0f])[\p{Default_Ignorable_Code_Point}\p{Cs}\ufff9-\ufffb]/gu;
const REPLACEMENT = '\ufffd';

/** Keeps its lines and tabs. Never longer than what it was. */
export function plain(text: string): string {
  return text
    .replace(SEQUENCES, '')
    .replaceAll('\r\n', '\n')
    .replace(CONTROLS, ' ')
    .replace(JOINERS, '')
    .replace(UNSEEN, REPLACEMENT);
}

/** In one line. */
export const plainLine = (text: string): string => plain(text).replace(/[\t\n]+/g, ' ');

/**
 * For Markdown, as the Web UI renders it: text that stands as it is, in one line, where links, images, HTML and
 * formatting are characters like any other. Not for the cells of a table, which end at `|` all the same.
 */
export function quoted(text: string): string {
  const line = plainLine(text);
  const runs = line.match(/`+/g) ?? [];
  const longest = runs.reduce((most, run) => Math.max(most, run.length), 0);
  const fence = '`'.repeat(longest + 1);
  // A blank on either side belongs to the fence: without it a backtick at the edge would.
  return `${fence} ${line} ${fence}`;
}

/** The same for a name: one that has no meaning in Markdown stands without a fence. */
export const named = (name: string): string =>
  /^[A-Za-z0-9](?:[\w-]*[A-Za-z0-9])?$/.test(name) ? name : quoted(name);

/** Characters that are shown as themselves, in JSON text as its escapes: the value stays the same. */
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
