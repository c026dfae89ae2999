import { runGroup } from './group';

runGroup('replay', 1, 1);
runGroup('workflow/ways', 1, 1);
