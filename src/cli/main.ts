#!/usr/bin/env node
import { leaveOnInterrupt } from '../platform/process/interrupts.js';

// Before anything else is loaded, so that an interrupt in the first half second gets the same answer.
leaveOnInterrupt();
const { main } = await import('./command-line.js');
await main(process.argv.slice(2));
