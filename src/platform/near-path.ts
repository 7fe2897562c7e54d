import path from 'node:path';

/** A path for people: one below the current folder is given from there, since terminals are narrower than the whole. */
export const nearPath = (file: string): string =>
  file.startsWith(process.cwd() + path.sep) ? path.relative('', file) : file;
