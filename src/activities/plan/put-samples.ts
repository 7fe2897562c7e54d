import path from 'node:path';

/** Below `inputs_dir`: files of samples that clients put, by hash, and their tokens. `samples.py` has the same name. */
const FOLDER = '.samples';

/** Whether a client put this file, so that its lines are the rows that somebody gave it. */
export const isPut = (file: string): boolean => file.startsWith(`${FOLDER}/`);

export const tokenFile = (token: string): string => path.join(FOLDER, `${token}.token`);
