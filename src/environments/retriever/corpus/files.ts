import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { exists } from '../../../platform/files.js';
import { preview } from '../../../model/problems.js';
import { readText } from '../../../platform/utf8-text.js';

export interface CorpusFiles {
  format: 'jsonl' | 'arrow' | 'parquet';
  files: string[];
}

interface Wanted {
  corpus: string;
  /** Null: the only one that there is. */
  split: string | null;
}

const FORMATS = { '.jsonl': 'jsonl', '.arrow': 'arrow', '.parquet': 'parquet' } as const;
const isFormat = (extension: string): extension is keyof typeof FORMATS =>
  Object.hasOwn(FORMATS, extension);

/** A file, what `save_to_disk` of `datasets` writes, or files whose names say their split, as on the Hub. */
export async function filesOf({ corpus, split }: Wanted): Promise<CorpusFiles> {
  const found = await stat(corpus);
  if (!found.isDirectory()) {
    if (split !== null) throw new Error(`split: expected none for one file, got ${preview(split)}`);
    const extension = path.extname(corpus);
    return { format: isFormat(extension) ? FORMATS[extension] : 'jsonl', files: [corpus] };
  }
  const splits = path.join(corpus, 'dataset_dict.json');
  if (await exists(splits)) {
    const { splits: names } = JSON.parse(await readText(splits)) as { splits: string[] };
    const folder = path.join(corpus, chosen({ corpus, split, names }));
    return await savedDataset({ corpus: folder, split: null });
  }
  if (await exists(path.join(corpus, STATE))) return await savedDataset({ corpus, split });
  return await filesBySplit({ corpus, split });
}

const STATE = 'state.json';

async function savedDataset({ corpus, split }: Wanted): Promise<CorpusFiles> {
  const state = JSON.parse(await readText(path.join(corpus, STATE))) as {
    _data_files: { filename: string }[];
    _split?: string | null;
  };
  chosen({ corpus, split, names: [state._split ?? 'train'] });
  const files = state._data_files.map(({ filename }) => path.join(corpus, filename));
  return { format: 'arrow', files };
}

function chosen({ corpus, split, names }: Wanted & { names: readonly string[] }): string {
  const [first] = names;
  if (split !== null && names.includes(split)) return split;
  if (split !== null)
    throw new Error(`split: expected ${names.join(' or ')}, got ${preview(split)}`);
  if (first !== undefined && names.length === 1) return first;
  throw new Error(`split: required, because ${path.basename(corpus)} has ${names.join(', ')}`);
}

async function filesBySplit({ corpus, split }: Wanted): Promise<CorpusFiles> {
  const entries = await readdir(corpus, { recursive: true, withFileTypes: true });
  const files = entries
    // The cache of the Hub has links.
    .filter((entry) => entry.isFile() || entry.isSymbolicLink())
    .map((entry) => path.relative(corpus, path.join(entry.parentPath, entry.name)))
    .filter((file) => isFormat(path.extname(file)) && !file.split(path.sep).some(isHidden))
    .sort();
  if (files.length === 0)
    throw new Error(`expected files that end in ${Object.keys(FORMATS).join(', ')}, got none`);
  const name = chosen({ corpus, split, names: [...new Set(files.map(splitOf))].sort() });
  const own = files.filter((file) => splitOf(file) === name);
  const folders = [...new Set(own.map((file) => path.dirname(file)))];
  if (folders.length > 1)
    throw new Error(
      `expected the files of ${name} in one folder, got ${folders.join(', ')}; name one of them`,
    );
  const extensions = [...new Set(own.map((file) => path.extname(file)))].filter(isFormat);
  const [extension] = extensions;
  if (extension === undefined || extensions.length > 1)
    throw new Error(`expected files of one format, got ${extensions.join(', ')}`);
  refuseLackingShards(own, name);
  return { format: FORMATS[extension], files: own.map((file) => path.join(corpus, file)) };
}

/** A cache of the Hub may have some shards alone. */
function refuseLackingShards(files: readonly string[], split: string): void {
  const counts = new Set(
    files.map((file) => Number(/-\d{5}-of-(\d{5})/.exec(path.basename(file))?.[1] ?? 0)),
  );
  const [count = 0] = counts;
  if (counts.size > 1 || count <= files.length) return;
  throw new Error(
    `expected all ${count} files of ${split}, as their names say, got ${files.length}`,
  );
}

const isHidden = (name: string): boolean => name.startsWith('.') || name.startsWith('__');

/** `train-00000-of-00041`, also behind the name of a dataset. */
const SHARD = /(?:^|[-/])(\w[\w.]*)-\d{5}-of-\d{5}[^/]*$/;
const NO_SPLIT = new Set(['data', 'part']);
const KEYWORDS: readonly [split: string, words: RegExp][] = [
  ['train', /(?<![a-z])(?:train|training)(?![a-z])/i],
  ['validation', /(?<![a-z])(?:validation|valid|dev|val)(?![a-z])/i],
  ['test', /(?<![a-z])(?:test|testing|eval|evaluation)(?![a-z])/i],
];

/** The split that a file's path says, by the rules of `datasets`. */
function splitOf(file: string): string {
  const [, shard] = SHARD.exec(file.split(path.sep).join('/')) ?? [];
  if (shard !== undefined && !NO_SPLIT.has(shard)) return shard;
  return KEYWORDS.find(([, words]) => words.test(file))?.[0] ?? 'train';
}
