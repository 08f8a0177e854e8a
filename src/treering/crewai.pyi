from treering.frameworks.crewai import TreeringStorage as TreeringStorage
