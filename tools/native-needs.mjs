import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import path from 'node:path';
import { filesBelow } from './fingerprint.mjs';

/** By npm's name of a platform: what its programs' headers say, and its name in a wheel's. */
const PLATFORMS = {
  'linux-x64': { magic: '7f454c46', machine: [18, 0x3e], wheel: linux('x86_64') },
  'linux-arm64': { magic: '7f454c46', machine: [18, 0xb7], wheel: linux('aarch64') },
  'darwin-x64': { magic: 'cffaedfe', machine: [4, 0x07], wheel: mac('x86_64') },
  'darwin-arm64': { magic: 'cffaedfe', machine: [4, 0x0c], wheel: mac('arm64') },
};
const UNIVERSAL = 'cafebabe';
export const PLATFORM_NAMES = Object.keys(PLATFORMS);

/**
 * The oldest system that the programs below a folder run on, as a wheel's platform: it is read from them, so that the
 * wheel claims what they need. Throws if one is of another platform.
 */
export function wheelPlatform(folder, platform) {
  const { magic, machine, wheel } = PLATFORMS[platform];
  const needs = [];
  for (const name of filesBelow(folder)) {
    const file = path.join(folder, name);
    const kind = firstBytes(file);
    if (kind === UNIVERSAL)
      throw new Error(`${file}: expected a program of one platform; got several in one`);
    const found = Object.values(PLATFORMS).find((one) => kind === one.magic);
    if (found === undefined) continue;
    const program = readFileSync(file);
    if (found.magic !== magic || program[machine[0]] !== machine[1])
      throw new Error(`${file}: expected a program for ${platform}; got one for another platform`);
    needs.push(...wheel.needs(program));
  }
  return wheel.name(needs.sort((a, b) => a[0] - b[0] || a[1] - b[1]).at(-1));
}

function firstBytes(file) {
  const bytes = Buffer.alloc(4);
  const fd = openSync(file, 'r');
  try {
    readSync(fd, bytes);
  } finally {
    closeSync(fd);
  }
  return bytes.toString('hex');
}

/** glibc's versions are in a program's table of symbols. One that is linked statically has none. */
function linux(arch) {
  return {
    needs: (program) =>
      [...program.toString('latin1').matchAll(/\0GLIBC_(\d+)\.(\d+)/g)].map(([, major, minor]) => [
        Number(major),
        Number(minor),
      ]),
    name: ([major, minor]) => `manylinux_${major}_${minor}_${arch}`,
  };
}

const LC_VERSION_MIN_MACOSX = 0x24;
const LC_BUILD_VERSION = 0x32;
const HEADER = 32;

/** A program of macOS says it in a load command. From macOS 11 on, wheels name major versions alone. */
function mac(arch) {
  return {
    needs: (program) => {
      const found = [];
      let at = HEADER;
      for (let left = program.readUInt32LE(16); left > 0; left -= 1) {
        const command = program.readUInt32LE(at);
        if (command === LC_VERSION_MIN_MACOSX) found.push(program.readUInt32LE(at + 8));
        if (command === LC_BUILD_VERSION) found.push(program.readUInt32LE(at + 12));
        at += program.readUInt32LE(at + 4);
      }
      return found.map((version) => [version >>> 16, (version >>> 8) & 0xff]);
    },
    name: ([major, minor]) =>
      major < 11
        ? `macosx_${major}_${minor}_${arch}`
        : `macosx_${minor > 0 ? major + 1 : major}_0_${arch}`,
  };
}
