import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { PROJECT_ROOT } from '../../platform/project-root.js';

/** Where a module's own code threw: its frames, without those of this project, Node and other packages. */

/** Prefixes of the project's own code, as built and, by source maps, as written. */
const OURS = [
  fileURLToPath(new URL('../../', import.meta.url)),
  path.join(PROJECT_ROOT, 'src', path.sep),
];
const MOST_FRAMES = 10;
/** For the module's author. */
const WITHOUT_LINES =
  '    (to see lines, name the file .mts, or put a package.json with "type": "module" beside it)';

interface Frame {
  name: string;
  file: string;
  /** null: for a TypeScript file that its package.json does not make a module, only compiled lines are known. */
  line: string | null;
}

/** `at name (place)`, or `at place` for code without a name. */
const FRAME = /^\s+at (?:async )?(?:([^(]*) \()?(.+?)\)?$/;
const PLACE = /^(?:file:\/\/)?(\/[^?]*?)(?:\?.*)?:(\d+):\d+$/;
/** The loader's name for a file that is no module. */
const COMPILED = /^data:.*\?filePath=([^?]+)/;

function frameOf(text: string): Frame | null {
  const [, called = 'the module', place = ''] = FRAME.exec(text) ?? [];
  const name = called.replace(/^(?:Object|Module)\./, '');
  const [, compiled] = COMPILED.exec(place) ?? [];
  if (compiled !== undefined) {
    const file = decodeURIComponent(compiled).replace(/\?.*$|:\d+:\d+$/, '');
    return { name, file, line: null };
  }
  const [, file, line] = PLACE.exec(place) ?? [];
  return file === undefined || line === undefined ? null : { name, file: decodeURI(file), line };
}

const isOurs = (file: string): boolean => OURS.some((folder) => file.startsWith(folder));

function framesOf(error: unknown): Frame[] {
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  return stack
    .split('\n')
    .flatMap((text) => frameOf(text) ?? [])
    .filter(({ file }) => !isOurs(file) && !file.includes('/node_modules/'))
    .slice(0, MOST_FRAMES);
}

const placeOf = ({ file, line }: Frame): string => (line === null ? file : `${file}:${line}`);

/** Its innermost frame first; null if none belongs to the module. */
export function ownTrace(error: unknown): string | null {
  const frames = framesOf(error);
  if (frames.length === 0) return null;
  const lines = frames.map((frame) => `    at ${frame.name} (${placeOf(frame)})`);
  if (frames.some(({ line }) => line === null)) lines.push(WITHOUT_LINES);
  return [String(error), ...lines].join('\n');
}

/** ` (at mine.ts:12 in stepOne)`, for messages. */
export function ownPlace(error: unknown): string {
  const [frame] = framesOf(error);
  if (frame === undefined) return '';
  return ` (at ${path.basename(placeOf(frame))} in ${frame.name})`;
}
