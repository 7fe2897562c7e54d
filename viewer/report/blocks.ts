import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** Documents of a report, in blocks that nothing runs (`ReportDocument`). */

const gzipped = promisify(gzip);

/** No text of a document can end its block: neither as JSON, whose `<` are escaped, nor as base64. */
export const plainBlock = (id: string, document: unknown): string =>
  blockOf(id, { type: 'application/json', text: escapedJson(document) });

export async function packedBlock(id: string, document: unknown): Promise<string> {
  const packed = await gzipped(JSON.stringify(document));
  return blockOf(id, { type: 'application/gzip', text: packed.toString('base64') });
}

export const escapedJson = (document: unknown): string =>
  JSON.stringify(document).replace(
    /[<\u2028\u2029]/g,
    (letter) => String.raw`\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** Ids of runs and rollouts have no letter that HTML knows. */
const blockOf = (id: string, { type, text }: { type: string; text: string }): string =>
  `<script type="${type}" id="${id}">${text}</script>\n`;
