import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Json, JsonObject } from '../json/exact.js';
import { isObject } from '../json/exact.js';
import { byCodePoints, isTruthy, reprOf, strOf } from '../python/repr.js';
import { resolveUnderRoots } from '../config/search-roots.js';
import { exists } from '../../src/platform/files.js';
import type { Places } from '../config/search-roots.js';
import { parseYaml } from '../config/yaml-text.js';
import { readText } from '../../src/platform/utf8-text.js';
import { readWhole } from '../../src/platform/regular-file.js';

/** How many hexadecimal digits of the hash are kept. */
const HASH_DIGITS = 12;

/** The `skills_ref` of rows and results: `{path, hash, skills: [{name, description, version}]}`. */
export interface SkillsRef extends JsonObject {
  path: string;
  hash: string;
  skills: (JsonObject & { name: string })[];
}

/** Upstream's text. */
export const usingSkills = ({ path, hash, skills }: SkillsRef): string =>
  `Using skills from ${path} (hash=${hash}, ${skills.length} skill(s): ${skills.map(({ name }) => name).join(', ')})`;

/** Reads the skills of a directory. */
export async function skillsRef(directory: string, places: Places): Promise<SkillsRef> {
  const from = `(from skills.path=${reprOf(directory)})`;
  const root = await resolveUnderRoots(directory, places);
  if (!(await exists(root))) throw new Error(`Skills path does not exist: ${root} ${from}.`);
  if (!(await stat(root)).isDirectory()) {
    throw new Error(
      `Skills path must be a directory of skill directories, but ${root} is a file ${from}.`,
    );
  }
  const skills: SkillsRef['skills'] = [];
  // A dangling link is neither a directory nor a file.
  for (const name of (await readdir(root)).sort(byCodePoints)) {
    const skill = path.join(root, name);
    const info = await stat(skill).catch(() => null);
    if (info?.isDirectory() === true) skills.push(await readSkill(skill));
  }
  if (skills.length === 0) {
    throw new Error(
      `Skills path ${root} contains no skills. Expected one or more subdirectories, ` +
        `each containing a SKILL.md file ${from}.`,
    );
  }
  return { path: directory, hash: await hashDirectory(root), skills };
}

/** The first 12 hexadecimal digits of SHA-256 over path, NUL, bytes, NUL of every file, in the order of path components. */
async function hashDirectory(root: string): Promise<string> {
  const entries = await readdir(root, { recursive: true });
  const hash = createHash('sha256');
  for (const name of entries.sort(byParts)) {
    const file = path.join(root, name);
    const info = await stat(file).catch(() => null);
    if (info?.isFile() !== true) continue;
    hash.update(`${name.split(path.sep).join('/')}\0`);
    hash.update(await readWhole(file));
    hash.update('\0');
  }
  return hash.digest('hex').slice(0, HASH_DIGITS);
}

/** Python compares paths part by part: `a/b` comes before `a-b`. */
function byParts(a: string, b: string): number {
  const left = a.split(path.sep);
  const right = b.split(path.sep);
  const at = left.findIndex((part, index) => part !== right[index]);
  if (at < 0) return left.length - right.length;
  return byCodePoints(left[at] ?? '', right[at] ?? '');
}

async function readSkill(directory: string): Promise<SkillsRef['skills'][number]> {
  const file = path.join(directory, 'SKILL.md');
  if (!(await exists(file))) {
    throw new Error(
      `Skill directory ${directory} is missing a SKILL.md file. Each skill must be a directory containing a SKILL.md.`,
    );
  }
  const data = frontmatterOf(await readText(file), file);
  const { name, description = null, metadata } = data;
  if (name === undefined || !isTruthy(name)) {
    throw new Error(`Skill file ${file} frontmatter is missing a required 'name' field.`);
  }
  if (description !== null && typeof description !== 'string') {
    throw new Error(`Skill file ${file}: description: expected text, got ${reprOf(description)}`);
  }
  const version = isObject(metadata) ? (metadata['version'] ?? null) : null;
  return { name: strOf(name), description, version: version === null ? null : strOf(version) };
}

function frontmatterOf(text: string, file: string): JsonObject {
  const lines = text.replace(/^\ufeff/, '').split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/);
  if (lines[0]?.trim() !== '---') {
    throw new Error(
      `Skill file ${file} is missing YAML frontmatter. ` +
        "It must start with a '---' line followed by 'name:' and 'description:' fields.",
    );
  }
  const end = lines.findIndex((line, index) => index > 0 && line.trim() === '---');
  if (end < 0) {
    throw new Error(
      `Skill file ${file} has an unterminated YAML frontmatter block (no closing '---' line).`,
    );
  }
  const data: Json = parseYaml(lines.slice(1, end).join('\n'), file);
  if (data !== null && !isObject(data)) {
    throw new Error(`Skill file ${file} frontmatter must be a YAML mapping, got ${reprOf(data)}.`);
  }
  return data ?? {};
}
